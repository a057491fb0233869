"""What goes over the wire: transport, codecs, and the halo exchange."""
