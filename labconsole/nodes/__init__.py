"""SSH sessions with an agent in each: what the engine's ports call Connect and AgentLink. docs/ssh.md says how."""
