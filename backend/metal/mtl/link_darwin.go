//go:build cgo && !nometal

package mtl

// #cgo LDFLAGS: -framework Metal -framework Foundation -framework IOKit -framework CoreFoundation -framework CoreGraphics
import "C"
