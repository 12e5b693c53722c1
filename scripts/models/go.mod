// Nobody requires this module, and it has nothing in Go: this file keeps the second implementation of the sample
// runner's models, in Python, out of what go get downloads of the root module.
module github.com/ferrumkv/ferrumkv/scripts/models

go 1.26.0
