"""The policy: encoders, network, action heads, normalisers, and its weights as one vector."""
