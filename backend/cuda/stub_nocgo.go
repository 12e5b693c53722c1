//go:build linux && !cgo && !nocuda

package cuda

const why = "built without cgo"
