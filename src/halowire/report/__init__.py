"""Console output, the HTML report and TensorBoard."""
