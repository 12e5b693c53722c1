// An example that runs an engine in C in its process. It is a module of its own, so that nobody else downloads what it imports.
module github.com/ferrumkv/ferrumkv/examples/yzma

go 1.26.0

require (
	github.com/ferrumkv/ferrumkv v0.0.0
	github.com/hybridgroup/yzma v1.28.0
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/ebitengine/purego v0.10.0 // indirect
	github.com/jupiterrider/ffi v0.7.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/ferrumkv/ferrumkv => ../..
