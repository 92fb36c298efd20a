"""What tests and the programs beside them share: stand-ins, samples, labs, and what the machine must have."""
