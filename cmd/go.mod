module github.com/ferrumkv/ferrumkv/cmd

go 1.26.0

require (
	github.com/ardanlabs/jinja v1.8.0
	github.com/edsrzf/mmap-go v1.2.0
	github.com/ferrumkv/ferrumkv v0.0.0
	github.com/ferrumkv/ferrumkv/testdata/model v0.0.0
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.9
	github.com/stretchr/testify v1.12.1
	golang.org/x/sys v0.49.0
	golang.org/x/text v0.44.0
	pgregory.net/rapid v1.3.0
)

require (
	github.com/NVIDIA/go-nvml v0.13.4-0 // indirect
	github.com/go-gl/mathgl v1.2.0 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/klauspost/compress v1.20.4 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

// As in the library's go.mod: no pattern with ... compiles NVIDIA's bindings.
ignore ./ferrumkv-nvml

tool github.com/ferrumkv/ferrumkv/cmd/ferrumkv-nvml
