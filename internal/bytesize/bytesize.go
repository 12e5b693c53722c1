// Package bytesize formats byte counts for people.
package bytesize

import "fmt"

// String is a number of bytes in the largest binary unit of which it is at least one: "640.0 KiB".
func String(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/1024, 0
	for v >= 1023.95 && unit < 4 { // which would be written 1024.0
		v, unit = v/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", v, "KMGTP"[unit])
}
