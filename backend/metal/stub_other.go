//go:build !darwin && !metalsimt

package metal

const why = "only on macOS"
