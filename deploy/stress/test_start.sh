#!/usr/bin/env bash
# Starts the stress test on Nomad: first the server, then the clients that load it.
#
#   CONNECTIONS=5000 STREAMS=25 RAMP_UP_PERIOD=125 ./test_start.sh
#
# Each of the CLIENTS client processes opens CONNECTIONS connections with STREAMS streams each, in RAMP_UP_PERIOD
# seconds. TRANSPORT is tcp, ws, h2 or ws-h2. The test ends by itself after STRESS_TEST_PERIOD seconds.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/common.sh
. "$here/scripts/common.sh"
need nomad curl setsid

: "${CONNECTIONS:=5000}"
: "${STREAMS:=25}"
: "${RAMP_UP_PERIOD:=125}"
: "${CLIENTS:=2}"
: "${TRANSPORT:=tcp}"
: "${STRESS_TEST_PERIOD:=3600}"
: "${SERVER_START_PERIOD:=60}"
whole CONNECTIONS "$CONNECTIONS"
whole STREAMS "$STREAMS"
whole RAMP_UP_PERIOD "$RAMP_UP_PERIOD"
whole CLIENTS "$CLIENTS"
whole STRESS_TEST_PERIOD "$STRESS_TEST_PERIOD"
whole SERVER_START_PERIOD "$SERVER_START_PERIOD"
case $TRANSPORT in
tcp | ws | h2 | ws-h2) ;;
*) fail "TRANSPORT must be tcp, ws, h2 or ws-h2, not '$TRANSPORT'" ;;
esac

# The clients write their reports when they are done, so they have to be before the test ends.
duration=$((STRESS_TEST_PERIOD - RAMP_UP_PERIOD - 60))
if [ "$duration" -lt 10 ]; then duration=10; fi

image=$DOCKER_REPOSITORY_ADDRESS/tiderace
say "Image: $image"
say "Consul: $CONSUL_ADDRESS, Nomad: $NOMAD_ADDR"
say "Clients: $CLIENTS over $TRANSPORT, each with $CONNECTIONS connections of $STREAMS streams"
say "Ramp up period of a client, seconds: $RAMP_UP_PERIOD"

say "Starting the server (scripts/server.nomad)"
nomad job run -var "image=$image" "$here/scripts/server.nomad"

# Consul knows when its port answers.
say "Waiting until Consul finds it healthy, at most ${SERVER_START_PERIOD}s"
health="http://$CONSUL_ADDRESS/v1/health/service/$SERVER_JOB?passing"
waited=0
until curl --fail --silent --max-time 5 "$health" | grep -q '"ServiceID"\|"Service"'; do
    if [ "$waited" -ge "$SERVER_START_PERIOD" ]; then
        fail "the server is not there after ${SERVER_START_PERIOD}s; 'nomad job status $SERVER_JOB' says why"
    fi
    sleep 1
    waited=$((waited + 1))
done

say "Starting the clients (scripts/client.nomad)"
nomad job run \
    -var "image=$image" \
    -var "clients=$CLIENTS" \
    -var "transport=$TRANSPORT" \
    -var "connections=$CONNECTIONS" \
    -var "streams=$STREAMS" \
    -var "ramp_up_period=$RAMP_UP_PERIOD" \
    -var "duration=$duration" \
    "$here/scripts/client.nomad"

# A session of its own: it outlives this shell, and stopping by hand ends it with its sleep.
# shellcheck disable=SC2016 # The inner shell expands them.
setsid bash -c 'sleep "$1" && TIMER=1 exec "$2"' timer "$STRESS_TEST_PERIOD" "$here/test_stop.sh" \
    >/dev/null 2>&1 </dev/null &
printf '%s\n' "$!" >"$TIMER_FILE"

say "The stress test runs"
say "It ends by itself after ${STRESS_TEST_PERIOD}s, or with ./test_stop.sh"
