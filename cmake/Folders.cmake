# One folder of src/ is one noun of the domain and one library; a folder may use only the folders above it.
# The one list of them: the build, the tests and the check of includes (cmake/includes.py) read it here.
set(TF_FOLDERS base net tokenizer contract dataset kernels parallel model weights engine train router evaluate rollout
               tracking orchestrate dashboard cli)
