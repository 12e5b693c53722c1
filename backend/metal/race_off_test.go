//go:build cgo && !nometal && (darwin || metalsimt) && !race && !asan

package metal

const raceDetector = false
