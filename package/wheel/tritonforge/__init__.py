"""The program `tritonforge` with what it reads at run time: worker/, recipes/, problems/, models/, docs/."""
