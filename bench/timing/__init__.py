"""Timing of training on slow networks: workers that live on a lab's hosts, and the rate at which they wait enough."""
