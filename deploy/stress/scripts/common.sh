# What the start and stop scripts share: names, addresses, defaults. Read with `.`, not run.
# shellcheck shell=bash disable=SC2034

: "${DOCKER_REPOSITORY_ADDRESS:=localhost:5000}"
: "${CONSUL_ADDRESS:=localhost:8500}"
: "${NOMAD_ADDR:=http://localhost:4646}"
export NOMAD_ADDR

readonly SERVER_JOB=rsocket-stress-test-server
readonly CLIENT_JOB=rsocket-stress-test-client
# The process that ends the test by itself, so that stopping by hand can end it in turn.
TIMER_FILE=${TMPDIR:-/tmp}/rsocket-stress-test.$(id -u).timer
readonly TIMER_FILE

say() { printf '==> %s\n' "$*"; }

fail() {
    printf '%s\n' "$*" >&2
    exit 1
}

need() {
    local tool
    for tool in "$@"; do
        command -v "$tool" >/dev/null || fail "$tool is needed and not installed; see README.md"
    done
}

# A whole number above zero, or the end.
whole() {
    case $2 in
    '' | *[!0-9]* | 0) fail "$1 must be a whole number above 0, not '$2'" ;;
    esac
}
