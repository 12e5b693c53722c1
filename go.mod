module github.com/ferrumkv/ferrumkv

go 1.26.0

require (
	github.com/NVIDIA/go-nvml v0.13.4-0
	github.com/ferrumkv/ferrumkv/testdata/model v0.0.0-20261126010833-c6a719c21efa
	github.com/go-gl/mathgl v1.2.0
	github.com/klauspost/compress v1.20.4
	github.com/spf13/cobra v1.10.2
	github.com/stretchr/testify v1.12.1
	go.yaml.in/yaml/v3 v3.0.5
	golang.org/x/sys v0.49.0
	golang.org/x/text v0.44.0
	pgregory.net/rapid v1.3.0
)

require (
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/spf13/pflag v1.0.9 // indirect
)

// The bindings of NVIDIA's management library are heavy to compile and warn: nothing but
// this program imports them, no pattern with ... finds it, and naming it as a tool keeps
// the version of what it requires here.
ignore ./cmd/ferrumkv-nvml

tool github.com/ferrumkv/ferrumkv/cmd/ferrumkv-nvml
