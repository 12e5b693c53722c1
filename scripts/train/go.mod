// Nobody requires this module, and it has nothing in Go: this file keeps what the demo model was trained
// with out of what go get downloads of the root module.
module github.com/ferrumkv/ferrumkv/scripts/train

go 1.26.0
