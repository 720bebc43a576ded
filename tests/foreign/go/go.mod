module tiderace/tests/foreign

go 1.23

require github.com/go-stomp/stomp/v3 v3.1.5
