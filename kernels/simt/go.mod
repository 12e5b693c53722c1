// Nobody requires this module, and it has nothing in Go: this file keeps the stand-in for GPUs, which tests build from a
// checkout, out of what go get downloads of the root module.
module github.com/ferrumkv/ferrumkv/kernels/simt

go 1.26.0
