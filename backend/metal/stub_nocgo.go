//go:build (darwin || metalsimt) && !cgo && !nometal

package metal

const why = "built without cgo"
