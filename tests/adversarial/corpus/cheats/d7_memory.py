# D7: takes memory until none is left
# stopped by: out_of_memory
kept = []
while True:
    kept.append(bytearray(256 << 20))
