#!/usr/bin/env bash
# Ends the stress test: first the clients, then the server. Harmless when nothing runs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/common.sh
. "$here/scripts/common.sh"
need nomad

# By hand: the timer has nothing left to do. (Called by the timer, this would end the caller.)
if [ -z "${TIMER:-}" ] && [ -f "$TIMER_FILE" ]; then
    timer=$(cat "$TIMER_FILE")
    # Its number may be somebody else's by now.
    if [ -n "$timer" ] && tr '\0' ' ' <"/proc/$timer/cmdline" 2>/dev/null | grep -q test_stop.sh; then
        kill -- "-$timer" 2>/dev/null || true
    fi
fi
rm -f "$TIMER_FILE"

status=0
for job in "$CLIENT_JOB" "$SERVER_JOB"; do
    if ! nomad job status -short "$job" >/dev/null 2>&1; then
        say "$job does not run"
        continue
    fi
    say "Stopping $job"
    nomad job stop -purge "$job" || status=1
done
exit "$status"
