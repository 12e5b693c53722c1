//go:build linux && nocuda

package cuda

const why = "left out by the nocuda tag"
