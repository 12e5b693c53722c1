package states

func child(string) {}
