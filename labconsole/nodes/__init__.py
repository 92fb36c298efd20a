"""SSH sessions with an agent in each, implementing contracts' Connect and AgentLink (docs/ssh.md)."""
