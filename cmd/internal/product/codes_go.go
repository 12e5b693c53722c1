package product

import "unsafe"

const goLanes = 8

// tileGo is kernel.tile in Go.
func tileGo(sums, x *float32, xStride int, w *float32, wStride, rows, cols int) {
	all := unsafe.Slice((*[goLanes]float32)(unsafe.Pointer(sums)), rows*together)
	for i := range all {
		s := &all[i]
		s0, s1, s2, s3, s4, s5, s6, s7 := s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]
		a := unsafe.Slice((*[goLanes]float32)(unsafe.Add(unsafe.Pointer(x), 4*(i/together)*xStride)), cols/goLanes)
		b := unsafe.Slice((*[goLanes]float32)(unsafe.Add(unsafe.Pointer(w), 4*(i%together)*wStride)), cols/goLanes)
		for j := range a {
			v, u := &a[j], &b[j]
			s0, s1, s2, s3 = s0+v[0]*u[0], s1+v[1]*u[1], s2+v[2]*u[2], s3+v[3]*u[3]
			s4, s5, s6, s7 = s4+v[4]*u[4], s5+v[5]*u[5], s6+v[6]*u[6], s7+v[7]*u[7]
		}
		*s = [goLanes]float32{s0, s1, s2, s3, s4, s5, s6, s7}
	}
}

// foldGo is kernel.fold in Go.
func foldGo(out, sums *float32, n int) {
	to := unsafe.Slice(out, n*together)
	for i, s := range unsafe.Slice((*[goLanes]float32)(unsafe.Pointer(sums)), len(to)) {
		to[i] = (s[0] + s[1] + (s[2] + s[3])) + (s[4] + s[5] + (s[6] + s[7]))
	}
}
