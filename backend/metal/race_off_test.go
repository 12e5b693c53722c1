//go:build !race && !asan

package metal

const raceDetector = false
