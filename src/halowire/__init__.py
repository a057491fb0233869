"""halowire trains graph neural networks on whole graphs that are spread over many workers."""
