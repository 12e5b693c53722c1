module github.com/ferrumkv/ferrumkv/testdata/model

go 1.26.0
