package backend

// HostAccess is the ability of devices whose memory is host memory (CPU, unified
// memory of Apple GPUs): a buffer's bytes without a copy.
type HostAccess[B Buffer] interface {
	// HostBytes is the memory of b, valid until Free. The caller orders its access
	// with the streams that use b.
	HostBytes(b B) ([]byte, error)
}

// HostAccessOf returns the ability, also of a device behind its erased form,
// which a type assertion would miss.
func HostAccessOf[B Buffer](be Backend[B]) (HostAccess[B], bool) {
	if e, ok := be.(interface{ hostAccess() (HostAccess[B], bool) }); ok {
		return e.hostAccess()
	}
	a, ok := be.(HostAccess[B])
	return a, ok
}

func (e erased[B]) hostAccess() (HostAccess[AnyBuffer], bool) {
	a, ok := HostAccessOf(e.be)
	return erasedHostAccess[B]{a}, ok
}

type erasedHostAccess[B Buffer] struct{ a HostAccess[B] }

func (e erasedHostAccess[B]) HostBytes(b AnyBuffer) ([]byte, error) {
	var u unwrapper[B]
	buf := u.buf(b)
	if err := u.ok("host bytes"); err != nil {
		return nil, err
	}
	return e.a.HostBytes(buf)
}
