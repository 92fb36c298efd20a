#!/usr/bin/env bash
# What: asyncssh 2.24.1 (PyPI), its reading of `CASignatureAlgorithms` in an ssh_config.
#
# For OpenSSH this keyword limits the algorithms with which a certificate authority may have signed a certificate. It
# has nothing to do with the user's own key. asyncssh takes it as the list of algorithms with which the *client* signs
# its login. A client whose plain key is of another type then offers no key at all: "Permission denied". The keyword
# that OpenSSH has for that, `PubkeyAcceptedAlgorithms`, has no effect in asyncssh.
#
# Seen (server on loopback, an ed25519 key that it accepts, no certificate anywhere):
#   (empty file): logged in
#   CASignatureAlgorithms ecdsa-sha2-nistp256: PermissionDenied
#   PubkeyAcceptedAlgorithms ecdsa-sha2-nistp256: logged in
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
env/bin/pip install --quiet --disable-pip-version-check asyncssh==2.24.1
cat >login.py <<'PYTHON'
import asyncio
from pathlib import Path

import asyncssh


async def attempt(port: int, line: str) -> str:
    Path("config").write_text(line + "\n")
    try:
        async with asyncssh.connect(
            "127.0.0.1", port, config="config", known_hosts=None, username="lab", client_keys=["key"], agent_path=None
        ):
            answer = "logged in"
    except asyncssh.PermissionDenied:
        answer = "PermissionDenied"
    print(f"{line or '(empty file)'}: {answer}")
    return answer


async def main() -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    key.write_private_key("key")
    key.write_public_key("authorized")
    host_key = asyncssh.generate_private_key("ssh-ed25519")
    async with asyncssh.listen("127.0.0.1", 0, server_host_keys=[host_key], authorized_client_keys="authorized") as server:
        port = server.get_port()
        assert await attempt(port, "") == "logged in"
        assert await attempt(port, "CASignatureAlgorithms ecdsa-sha2-nistp256") == "PermissionDenied"
        assert await attempt(port, "PubkeyAcceptedAlgorithms ecdsa-sha2-nistp256") == "logged in"


asyncio.run(main())
PYTHON
env/bin/python login.py
