module github.com/ferrumkv/ferrumkv/kvevents/interop/zeromq

go 1.26.0

require (
	github.com/ferrumkv/ferrumkv v0.0.0
	github.com/go-zeromq/zmq4 v0.17.0
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/go-zeromq/goczmq/v4 v4.2.2 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sync v0.7.0 // indirect
	golang.org/x/text v0.15.0 // indirect
)

replace github.com/ferrumkv/ferrumkv => ../../..
