"""The policy network: encoders, memory, heads, and the statistics that normalise its inputs."""
