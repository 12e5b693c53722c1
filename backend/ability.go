package backend

// HostAccess is implemented by devices whose memory is host memory (the CPU, and Apple GPUs with
// their unified memory): it gives a buffer's bytes without a copy.
type HostAccess[B Buffer] interface {
	// HostBytes is the memory of b, valid until Free. The caller must synchronise its access with
	// the streams that use b.
	HostBytes(b B) ([]byte, error)
}

// HostAccessOf returns the device's HostAccess, also that of a device that Erase or Open wrapped,
// which a type assertion does not find.
func HostAccessOf[B Buffer](be Backend[B]) (HostAccess[B], bool) {
	if e, ok := be.(interface{ hostAccess() (HostAccess[B], bool) }); ok {
		return e.hostAccess()
	}
	a, ok := be.(HostAccess[B])
	return a, ok
}

func (e *erased[B]) hostAccess() (HostAccess[AnyBuffer], bool) {
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
