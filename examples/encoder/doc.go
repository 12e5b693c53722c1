// Package encoder shows an encoder, and cross attention to what it leaves.
package encoder
