//go:build !race && !asan

package cuda

const raceDetector = false
