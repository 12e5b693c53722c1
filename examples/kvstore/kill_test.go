package kvstore

func child(string) {}
