//go:build !amd64 || noasm || race

package memory

func nativeCopySum([]byte, []byte) (sum uint32, n int) { return 0, 0 }
