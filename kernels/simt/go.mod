// Nobody requires this module, and it has nothing in Go: this file keeps the stand-ins, which
// need a checkout, out of what go get downloads of the root module.
module github.com/ferrumkv/ferrumkv/kernels/simt

go 1.26.0
