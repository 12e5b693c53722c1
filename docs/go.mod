// Nobody requires this module, and it has nothing in Go: this file keeps the documents out of what go get downloads of the root
// module. They are read in the repository.
module github.com/ferrumkv/ferrumkv/docs

go 1.26.0
