package urlapi

// checkEncoder refuses what the format's encoder cannot do whatever the source is, so that no encoder is started in
// vain.
func checkEncoder(o Options) (key, reason string) { return "", "" }
