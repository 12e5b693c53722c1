//go:build (darwin || metalsimt) && !cgo && !nometal

package metal

const why = "built without cgo; install a C compiler (xcode-select --install) and build with CGO_ENABLED=1"
