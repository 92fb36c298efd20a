"""What a console can ask of the agent, one module per subject."""
