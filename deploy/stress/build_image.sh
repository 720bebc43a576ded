#!/usr/bin/env bash
# Builds the image of server and client and pushes it to the registry at DOCKER_REPOSITORY_ADDRESS.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/common.sh
. "$here/scripts/common.sh"
need docker

image=$DOCKER_REPOSITORY_ADDRESS/tiderace
docker build --file "$here/Dockerfile" --tag "$image" "$here/../.."
docker push "$image"
say "Pushed $image"
