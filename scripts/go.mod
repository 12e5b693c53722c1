// The workshop: programs that make and check what the repository has. No module requires this one.
module github.com/ferrumkv/ferrumkv/scripts

go 1.26.0

require (
	github.com/ferrumkv/ferrumkv v0.0.0
	github.com/klauspost/compress v1.20.4
	github.com/stretchr/testify v1.12.1
	golang.org/x/mod v0.42.0
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect
