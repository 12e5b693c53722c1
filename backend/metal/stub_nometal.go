//go:build (darwin || metalsimt) && nometal

package metal

const why = "left out by the nometal tag"
