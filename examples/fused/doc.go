// Package fused shows a model whose queries, keys and values come out of one matrix
// product: the library reads them where they lie.
package fused
