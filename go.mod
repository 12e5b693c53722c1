module github.com/ferrumkv/ferrumkv

go 1.26.0

require (
	github.com/NVIDIA/go-nvml v0.13.4-0
	github.com/go-gl/mathgl v1.2.0
	github.com/klauspost/compress v1.20.4
	github.com/stretchr/testify v1.12.1
	golang.org/x/sys v0.49.0
	pgregory.net/rapid v1.3.0
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect

// The bindings of NVIDIA's management library are heavy to compile and warn: nothing but cmd/ferrumkv-nvml imports them,
// no pattern with ... finds the folder, and naming it as a tool keeps the version of what it requires here.
ignore ./internal/nvml/library

tool github.com/ferrumkv/ferrumkv/internal/nvml/library
