#!/bin/sh
# Resolve anew what `make demo` (run.txt), `make test` (test.txt) and `make fuzz` (fuzz.txt) install: the newest versions
# that pyproject.toml allows, with the hashes of their files, for every Python from 3.11 on. `make lock` calls this with a
# Python that has uv.
set -eu
cd "$(dirname "$0")/../.."
python=$1
build_requires() {
  "$python" -c 'import tomllib; print("\n".join(tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"]))'
}
resolve() {
  build_requires | "$python" -m uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
    --no-annotate --no-emit-index-url --custom-compile-command 'make lock' pyproject.toml - "$@"
}
resolve --extra test --output-file tools/lock/test.txt
resolve --constraint tools/lock/test.txt --output-file tools/lock/run.txt
# For `make fuzz` alone: the last version that has wheels for Python 3.11.
echo 'atheris==3.0.0' | "$python" -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
  --no-annotate --no-emit-index-url --custom-compile-command 'make lock' - --output-file tools/lock/fuzz.txt
