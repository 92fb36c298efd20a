"""Load searches: the highest load that meets a loss goal, and RFC 2544's further tests."""
