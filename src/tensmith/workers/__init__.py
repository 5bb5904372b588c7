"""Work that is done elsewhere: in other processes of this machine, or on the nodes of a cluster."""
